//! The Auth service, which is always off. Clients' tokens are ignored, as in etcd while auth is
//! off.
//!
//! There are no users or roles, and none can be created.

use std::sync::Arc;

use etcd_api::error::Refusal;
use etcd_api::proto::etcdserverpb::auth_server::Auth;
use etcd_api::proto::etcdserverpb::*;
use tonic::{Request, Response, Status};

use super::Node;

/// The Auth service of one node.
#[derive(Debug, Clone)]
pub struct AuthService(pub Arc<Node>);

impl AuthService {
    fn header(&self) -> Option<ResponseHeader> {
        Some(self.0.header(self.0.store.revision()))
    }
}

/// Implements [`Auth`] with an error for every call in the list.
macro_rules! auth_with_refused {
    ($($method:ident: $request:ident => $response:ident;)*) => {
        #[tonic::async_trait]
        impl Auth for AuthService {
            async fn auth_status(
                &self,
                _: Request<AuthStatusRequest>,
            ) -> Result<Response<AuthStatusResponse>, Status> {
                Ok(Response::new(AuthStatusResponse {
                    header: self.header(),
                    enabled: false,
                    auth_revision: 1,
                }))
            }

            /// Returns success, because auth is already off.
            async fn auth_disable(
                &self,
                _: Request<AuthDisableRequest>,
            ) -> Result<Response<AuthDisableResponse>, Status> {
                let header = self.header();
                Ok(Response::new(AuthDisableResponse { header }))
            }

            async fn auth_enable(
                &self,
                _: Request<AuthEnableRequest>,
            ) -> Result<Response<AuthEnableResponse>, Status> {
                Err(Refusal::RootUserNotExist.into())
            }

            async fn user_list(
                &self,
                _: Request<AuthUserListRequest>,
            ) -> Result<Response<AuthUserListResponse>, Status> {
                let (header, users) = (self.header(), Vec::new());
                Ok(Response::new(AuthUserListResponse { header, users }))
            }

            async fn role_list(
                &self,
                _: Request<AuthRoleListRequest>,
            ) -> Result<Response<AuthRoleListResponse>, Status> {
                let (header, roles) = (self.header(), Vec::new());
                Ok(Response::new(AuthRoleListResponse { header, roles }))
            }

            /// Clients continue without a token after this error.
            async fn authenticate(
                &self,
                _: Request<AuthenticateRequest>,
            ) -> Result<Response<AuthenticateResponse>, Status> {
                Err(Refusal::AuthNotEnabled.into())
            }

            $(async fn $method(
                &self,
                _: Request<$request>,
            ) -> Result<Response<$response>, Status> {
                Err(Refusal::AuthNotEnabled.into())
            })*
        }
    };
}

auth_with_refused! {
    user_add: AuthUserAddRequest => AuthUserAddResponse;
    user_get: AuthUserGetRequest => AuthUserGetResponse;
    user_delete: AuthUserDeleteRequest => AuthUserDeleteResponse;
    user_change_password: AuthUserChangePasswordRequest => AuthUserChangePasswordResponse;
    user_grant_role: AuthUserGrantRoleRequest => AuthUserGrantRoleResponse;
    user_revoke_role: AuthUserRevokeRoleRequest => AuthUserRevokeRoleResponse;
    role_add: AuthRoleAddRequest => AuthRoleAddResponse;
    role_get: AuthRoleGetRequest => AuthRoleGetResponse;
    role_delete: AuthRoleDeleteRequest => AuthRoleDeleteResponse;
    role_grant_permission: AuthRoleGrantPermissionRequest => AuthRoleGrantPermissionResponse;
    role_revoke_permission: AuthRoleRevokePermissionRequest => AuthRoleRevokePermissionResponse;
}
